from retrograd.information.logic import Logic, LogicGate

Logic(("a", "b"), (LogicGate("AND", ("a", "b"), "y"), LogicGate("OR", ("a", "b"), "y")), ("y",))
