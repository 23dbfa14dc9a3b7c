"""Programs to read first; `retrograd demo` runs one of them."""
