"""``python -m mdaml``: the command, also where its script is not on the path."""

from mdaml.cli import main

if __name__ == "__main__":
    main()
