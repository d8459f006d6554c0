import { say } from './progress.mjs';
import { ensureProgram } from './system-package.mjs';

/**
 * A Redis or Valkey server: the one on PATH; else installed where the caller may (`CI=true` or `--yes`); else one line
 * says what to paste. Models answer without it: only what must outlive a request needs it.
 */
export async function ensureRedis({ mayInstall }) {
  const found = await ensureProgram({
    names: ['redis-server', 'valkey-server'],
    packages: { 'apt-get': 'redis-server', dnf: 'valkey', apk: 'redis', brew: 'redis' },
    title: 'a Redis server',
    log: 'redis',
    mayInstall,
  });
  if (found.program !== undefined) return;
  const { paste, failure } = found;
  if (paste === undefined) {
    say('no Redis found (models answer without it): install Redis 7 or Valkey 7.2, or later, to have jobs');
  } else if (failure === undefined) {
    say(`no Redis found (models answer without it); to have it, paste: ${paste}`);
  } else {
    say(`Redis could not be installed (models answer without it): ${failure}; paste: ${paste}`);
  }
}
