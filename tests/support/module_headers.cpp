// Nothing but a place to compile LibTorch's headers once: the tests of modules take them from here.
