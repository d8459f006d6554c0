import { errorLine, findProgram, runCommand } from './command.mjs';
import { step } from './progress.mjs';

const INSTALL_LIMIT_MS = 180_000;
const SUDO_LIMIT_MS = 10_000;

/** How each package manager installs packages; the first on PATH is used. */
const MANAGERS = [
  {
    program: 'apt-get',
    commands: (name) => [
      ['update', '-q'],
      ['install', '-y', '-q', '--no-install-recommends', name],
    ],
  },
  { program: 'dnf', commands: (name) => [['install', '-y', '-q', name]] },
  { program: 'apk', commands: (name) => [['add', '--quiet', name]] },
  { program: 'brew', commands: (name) => [['install', '--quiet', name]], asUser: true },
];

/**
 * A program of the system: the one on PATH; else installed where the caller may; else it is missing, with the line to
 * paste where some package manager has it, and why installing it failed where that was tried.
 *
 * @param {{ names: string[], packages: Record<string, string>, title: string, log: string, mayInstall: boolean }} what
 *   `names`: programs of which any will do; `packages`: the package by package manager
 * @returns {Promise<{ program: string } | { missing: true, paste?: string, failure?: string }>}
 */
export async function ensureProgram({ names, packages, title, log, mayInstall }) {
  const find = () => names.map((name) => findProgram(name)).find((found) => found !== undefined);
  const there = find();
  if (there !== undefined) return { program: there };
  const manager = MANAGERS.find(({ program }) => packages[program] !== undefined && findProgram(program) !== undefined);
  if (manager === undefined) return { missing: true };
  const commands = manager.commands(packages[manager.program]);
  const paste = pasteLine(manager, commands);
  if (!mayInstall) return { missing: true, paste };
  const failure = await step(`installing ${title}`, () => install(manager, commands, log));
  const program = find();
  if (failure === undefined && program !== undefined) return { program };
  return { missing: true, paste, failure: failure ?? 'the package has no such program' };
}

function needsRoot(manager) {
  return manager.asUser !== true && process.getuid?.() !== 0;
}

function pasteLine(manager, commands) {
  const prefix = needsRoot(manager) ? 'sudo ' : '';
  return commands.map((command) => `${prefix}${manager.program} ${command.join(' ')}`).join(' && ');
}

/** @returns {Promise<string | undefined>} why it failed */
async function install(manager, commands, log) {
  if (needsRoot(manager)) {
    const sudo = findProgram('sudo');
    const allowed = sudo && (await runCommand(sudo, ['-n', 'true'], { limitMs: SUDO_LIMIT_MS })).code === 0;
    if (!allowed) return 'this user may not install packages';
  }
  for (const command of commands) {
    const [program, ...args] = [...(needsRoot(manager) ? ['sudo', '-n'] : []), manager.program, ...command];
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const { code, output } = await runCommand(program, args, { env, log, limitMs: INSTALL_LIMIT_MS });
    if (code !== 0) return `${manager.program} ${command[0]} failed: ${errorLine(output)}`;
  }
  return undefined;
}
