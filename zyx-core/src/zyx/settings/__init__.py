"""What a user may configure, where it is read from, and what is refused.

    record      the typed record `Settings` and its sections, with defaults
    debug       the bits of ``ZYX_DEBUG``
    variables   which environment variable sets which key
    paths       where the configuration file and the cache lie
    check       one value against its type: unknown keys, wrong types, values out of range
    load        all sources together; of two that set a key, the upper one wins:

                    code                      ``zyx.configure(...)``, ``Runtime(settings=...)``
                    environment variables     ``ZYX_DEVICE`` and others
                    configuration file        ``$XDG_CONFIG_HOME/zyx/config.json``
                    defaults

    section     the section of one backend, checked against the class that the backend declares

A wrong value is an error wherever it stands: `SettingsError` says which file or variable, which key, why, and what is
accepted. Nothing is ignored quietly, and nothing is read at import.
"""
