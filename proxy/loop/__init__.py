"""Parts that any event loop needs: timers, slices of long work, histograms, log lines."""
