"""What SQUAD on a PyTorch problem costs beyond torch: a 1024-wide network, one batch.

Prints milliseconds per iteration of SQUAD, of the same evaluations and gradients in
torch alone, and their ratio, which should be at most 1.25.
"""

import itertools
import statistics
import time

import torch

import softqd

POPULATION, WIDTH, LATENT, DIM = 1024, 1024, 64, 8
EVERY, ROUNDS = 5, 5


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(LATENT, WIDTH), torch.nn.Tanh()]
    layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()] * 2
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1 + DIM)).requires_grad_(
        False
    )


NETWORK = network()


def evaluate(x):
    out = NETWORK(x)
    return torch.sigmoid(out[:, 0]), torch.tanh(out[:, 1:])


def with_gradient(x):
    x = x.detach().requires_grad_()
    quality, behavior = evaluate(x)
    ones = torch.ones_like(quality), torch.ones_like(behavior)
    return torch.autograd.grad((quality, behavior), x, ones)


def seconds_of(function, *args):
    began = time.perf_counter()
    function(*args)
    return time.perf_counter() - began


def main():
    problem = softqd.interop.torch.problem(
        evaluate,
        lambda generator: torch.randn(LATENT, generator=generator),
        behavior_bounds=(-1, 1),
        batched=True,
        quality_level=0.0,
    )
    algorithm = softqd.squad(problem, population_size=POPULATION)
    x = torch.randn(POPULATION, LATENT)
    alone = []

    def beside(point):  # both in turn, so that a busy machine is one for both
        spent = point.history["evaluations"]
        children = spent[-1] - spent[-2] - EVERY * POPULATION if len(spent) > 1 else 0
        total = sum(seconds_of(with_gradient, x) for _ in range(EVERY))
        with torch.no_grad():
            rounds = [POPULATION // 8] * (children // (POPULATION // 8))
            total += sum(seconds_of(evaluate, x[:rows]) for rows in rounds)
        alone.append(1e3 * total / EVERY)

    result = softqd.run(
        algorithm, num_iterations=EVERY * (ROUNDS + 1), log_every=EVERY, callback=beside
    )
    seconds = result.history["seconds"].tolist()
    ours = [1e3 * (b - a) / EVERY for a, b in itertools.pairwise(seconds)]
    # The first round compiles.
    ours, alone = statistics.median(ours[1:]), statistics.median(alone[1:])
    print(f"squad on torch {ours:7.1f} ms   torch alone {alone:7.1f} ms   ", end="")
    print(f"ratio {ours / alone:.2f}")


if __name__ == "__main__":
    main()
