"""``python -m neuronal_papers reproduce …``: the ``neuronal`` command from sources that are not installed.

Only an installed package has the entry points by which ``neuronal`` finds the commands of this one.
"""

import sys

from neuronal.cli.app import app, main
from neuronal_papers.cli import register, reproduce

if __name__ == "__main__":
    if reproduce not in [command.callback for command in app.registered_commands]:
        register(app)
    sys.exit(main())
