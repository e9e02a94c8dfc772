"""The paper's tables and figures, and demonstrations, as recipes."""
