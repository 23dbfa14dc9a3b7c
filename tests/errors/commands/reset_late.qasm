OPENQASM 3.0;
qubit[2] q;
cx q[0], q[1];
reset q[1];
