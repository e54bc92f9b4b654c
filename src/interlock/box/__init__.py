"""The box: walls around an agent's process that do not depend on its cooperation (H-15). Linux only; on other systems
an error reports that."""
