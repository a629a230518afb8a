"""``python -m zyx_llm`` is the command ``zyx-llm``."""

import sys

from zyx_llm.program.main import main

sys.exit(main())
