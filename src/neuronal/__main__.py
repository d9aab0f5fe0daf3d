"""``python -m neuronal`` and the ``neuronal`` command."""

import sys


def main() -> None:
    try:
        from neuronal.cli.app import main as run_command
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(f"neuronal: the command needs the lab extra ({missing.name} is missing): pip install 'neuronal[lab]'")
    sys.exit(run_command())


if __name__ == "__main__":
    main()
