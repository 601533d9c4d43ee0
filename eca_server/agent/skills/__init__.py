"""Skills: directories whose SKILL.md instructs the model for one kind of task, loaded on demand."""
