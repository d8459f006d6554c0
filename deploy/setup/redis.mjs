import { errorLine, findProgram, runCommand } from './command.mjs';
import { say, step } from './progress.mjs';

const SERVERS = ['redis-server', 'valkey-server'];
const INSTALL_LIMIT_MS = 180_000;
const SUDO_LIMIT_MS = 10_000;

/** How each package manager installs a Redis server, first match on PATH wins. */
const MANAGERS = [
  {
    program: 'apt-get',
    commands: [
      ['update', '-q'],
      ['install', '-y', '-q', '--no-install-recommends', 'redis-server'],
    ],
  },
  { program: 'dnf', commands: [['install', '-y', '-q', 'valkey']] },
  { program: 'apk', commands: [['add', '--quiet', 'redis']] },
  { program: 'brew', commands: [['install', '--quiet', 'redis']], asUser: true },
];

/**
 * A Redis or Valkey server: the one on PATH; else installed where the caller may (`CI=true` or `--yes`); else one line
 * says what to paste. Models answer without it: only what must outlive a request needs it.
 */
export async function ensureRedis({ mayInstall }) {
  if (SERVERS.some((name) => findProgram(name) !== undefined)) return;
  const manager = MANAGERS.find(({ program }) => findProgram(program) !== undefined);
  if (manager === undefined) {
    say('no Redis found (models answer without it): install Redis 7 or Valkey 7.2, or later, to have jobs');
    return;
  }
  const paste = pasteLine(manager);
  if (!mayInstall) {
    say(`no Redis found (models answer without it); to have it, paste: ${paste}`);
    return;
  }
  const failure = await step('installing a Redis server', () => install(manager));
  if (failure !== undefined)
    say(`Redis could not be installed (models answer without it): ${failure}; paste: ${paste}`);
}

function needsRoot(manager) {
  return manager.asUser !== true && process.getuid?.() !== 0;
}

function pasteLine(manager) {
  const prefix = needsRoot(manager) ? 'sudo ' : '';
  return manager.commands.map((command) => `${prefix}${manager.program} ${command.join(' ')}`).join(' && ');
}

/** @returns {Promise<string | undefined>} why it failed */
async function install(manager) {
  if (needsRoot(manager)) {
    const sudo = findProgram('sudo');
    const allowed = sudo && (await runCommand(sudo, ['-n', 'true'], { limitMs: SUDO_LIMIT_MS })).code === 0;
    if (!allowed) return 'this user may not install packages';
  }
  for (const command of manager.commands) {
    const [program, ...args] = [...(needsRoot(manager) ? ['sudo', '-n'] : []), manager.program, ...command];
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const { code, output } = await runCommand(program, args, { env, log: 'redis', limitMs: INSTALL_LIMIT_MS });
    if (code !== 0) return `${manager.program} ${command[0]} failed: ${errorLine(output)}`;
  }
  return undefined;
}
