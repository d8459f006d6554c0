export type StopSignal = 'SIGINT' | 'SIGTERM';

export const STOP_SIGNALS: readonly StopSignal[] = ['SIGINT', 'SIGTERM'];

/**
 * Calls the listener at each stop signal from now to the end of the process. It is never taken
 * away: a second signal during the stop must be ignored, as in Triton, not end the process.
 */
export type ListenForSignals = (listener: (signal: StopSignal) => void) => void;
