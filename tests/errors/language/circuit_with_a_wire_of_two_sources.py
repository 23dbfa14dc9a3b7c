from retrograd.physics.entropy import Logic, LogicGate

Logic(("a", "b"), (LogicGate("AND", ("a", "b"), "y"), LogicGate("OR", ("a", "b"), "y")), ("y",))
