"""Examples: programs in assembly and reversible functions. `retrograd demo` runs the cipher of xtea.rga."""
