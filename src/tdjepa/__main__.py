"""`python -m tdjepa VERB` is the same as `tdjepa VERB`."""

from tdjepa.cli import main

raise SystemExit(main())
