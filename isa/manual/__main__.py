"""`python -m retrograd.isa.manual DOCS_DIR`: write the generated pages, or check that they are fresh."""

import sys

from retrograd.isa.manual.pages import main

sys.exit(main())
