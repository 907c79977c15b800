"""Benchmark problems, each a function that returns a `softqd.Problem`."""

from softqd.networks._latent_models import Generator as Generator
from softqd.networks._latent_models import Scorer as Scorer
from softqd.problems._airfoils import airfoils as airfoils
from softqd.problems._arm import arm as arm
from softqd.problems._faces import faces as faces
from softqd.problems._image_composition import image_composition as image_composition
from softqd.problems._latent_space import latent_space as latent_space
from softqd.problems._linear_projection import linear_projection as linear_projection
from softqd.problems._neurons import Neuron as Neuron
from softqd.problems._neurons import neurons as neurons
from softqd.problems._sphere import sphere as sphere
