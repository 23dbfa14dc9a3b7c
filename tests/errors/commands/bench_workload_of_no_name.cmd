retrograd bench gnn
