"""The tensor that users hold: its class, its making and its leaving; `zyx` has them all."""
