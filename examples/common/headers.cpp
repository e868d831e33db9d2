// Nothing: this target exists for its precompiled header.
