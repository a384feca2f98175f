"""What reproduces the paper and measures bomkl: experiments, data sets, bounds and benchmarks.

It is a package of its own, above bomkl, which imports nothing of it. When it is installed, ``bomkl reproduce``,
``bomkl datasets`` and ``bomkl bench`` are there.
"""
