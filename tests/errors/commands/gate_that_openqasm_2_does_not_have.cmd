retrograd gates six_lines.real --qasm six.qasm --qasm-version 2
