"""The co-processor: the instruction table as hardware, in Amaranth (docs/coprocessor.md)."""
