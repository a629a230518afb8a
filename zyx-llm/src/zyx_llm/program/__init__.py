"""The command ``zyx-llm``. Start reading at `zyx_llm.program.main`."""
