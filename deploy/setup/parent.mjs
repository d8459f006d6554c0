import { setting } from './checkout.mjs';

const POLL_MS = 200;

/**
 * Calls back once when the npm that started this process is gone: an npm that is killed, or a shell between npm and
 * here that does not pass signals on, must not leave a server behind.
 */
export function whenNpmEnds(callback) {
  if (setting('npm_lifecycle_event') === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    callback();
  }, POLL_MS);
  timer.unref();
}
