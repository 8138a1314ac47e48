"""The command as a file that ``spark-submit`` can run; also ``python -m understudy.cli``."""

from understudy.cli.main import main

if __name__ == "__main__":
    main()
