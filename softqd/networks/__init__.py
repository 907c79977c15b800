"""Pretrained networks as pure functions, and the files and downloads behind them."""
