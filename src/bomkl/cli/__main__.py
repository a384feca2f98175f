"""``python -m bomkl.cli`` is the same as ``bomkl``."""

from bomkl.cli.app import main

main()
