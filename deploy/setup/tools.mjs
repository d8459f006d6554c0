import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { CACHE, ROOT, setting, TOOLS_BIN, toolEnvironment } from './checkout.mjs';
import { errorLine, findProgram, logFile, runCommand, SetupError } from './command.mjs';
import { say, step } from './progress.mjs';
import { hashOf, isStamped, packageFolders, writeStamp } from './stamp.mjs';

const MANIFEST = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const TOOLS = join(CACHE, 'tools');
const NVIDIA_SMI_LIMIT_MS = 10_000;

/** Refuses a Node.js that is older than package.json's `engines` asks for. */
export function checkNodeVersion(version = process.versions.node) {
  const wanted = MANIFEST.engines.node.replace(/[^\d.]/g, '');
  const [major, minor = 0] = wanted.split('.').map(Number);
  const [ourMajor, ourMinor] = version.split('.').map(Number);
  if (ourMajor > major || (ourMajor === major && ourMinor >= minor)) return;
  throw new SetupError(
    `Node.js ${wanted} or later is needed, and this is ${version}: install a later one and run again`,
  );
}

/** pnpm in the exact version of package.json's `packageManager`, under `.cache/tools`. */
export async function ensurePnpm() {
  const version = MANIFEST.packageManager.replace(/^pnpm@/, '').replace(/\+.*$/, '');
  if (installedPnpm() === version) return;
  await step(`installing pnpm ${version}`, async () => {
    mkdirSync(TOOLS, { recursive: true });
    const { program, args } = npmCommand();
    // Its install script puts the real binary in place: turbo cannot start the placeholder.
    const install = ['install', '--prefix', TOOLS, '--no-save', '--no-audit', '--no-fund', '--ignore-scripts=false'];
    const { code, output } = await runCommand(program, [...args, ...install, `pnpm@${version}`], {
      cwd: TOOLS,
      env: npmEnvironment(),
      log: 'pnpm',
    });
    if (code !== 0 || installedPnpm() !== version) fail('npm could not install pnpm', output, 'pnpm');
  });
}

/** The environment of npm: without what an npm that started us was told of workspaces. */
export function npmEnvironment() {
  return toolEnvironment({ npm_config_workspaces: undefined, npm_config_global: undefined });
}

function installedPnpm() {
  try {
    const installed = JSON.parse(readFileSync(join(TOOLS, 'node_modules', 'pnpm', 'package.json'), 'utf8'));
    return existsSync(join(TOOLS_BIN, 'pnpm')) ? installed.version : undefined;
  } catch {
    return undefined;
  }
}

/** How npm is started: the one that started us, else the one on PATH. */
export function npmCommand() {
  const script = setting('npm_execpath');
  if (script !== undefined && basename(script) === 'npm-cli.js') return { program: process.execPath, args: [script] };
  const npm = findProgram('npm');
  if (npm === undefined) throw new SetupError('npm is not on PATH: install it with Node.js and run again');
  return { program: npm, args: [] };
}

/** The packages of the lockfile. */
export async function ensureDependencies() {
  const others = ['deploy/models', 'examples', 'test'].map((folder) => join(ROOT, folder));
  const manifests = [ROOT, ...packageFolders(), ...others].map((folder) => join(folder, 'package.json'));
  const files = [join(ROOT, 'pnpm-lock.yaml'), join(ROOT, 'pnpm-workspace.yaml'), ...manifests.filter(existsSync)];
  const key = hashOf({ texts: [process.platform, process.arch, process.versions.modules], files });
  if (isStamped('dependencies', key) && existsSync(join(ROOT, 'node_modules', '.modules.yaml'))) return;
  await step('installing the packages of the lockfile', async () => {
    const args = ['install', '--frozen-lockfile', '--config.confirm-modules-purge=false'];
    const { code, output } = await runCommand(join(TOOLS_BIN, 'pnpm'), args, { log: 'dependencies' });
    if (code !== 0) fail('pnpm could not install the packages', output, 'dependencies');
  });
  writeStamp('dependencies', key);
}

/**
 * Where an NVIDIA GPU is there: the CUDA libraries that onnxruntime-node fetches. Without them the CPU serves.
 *
 * @param {{ again: boolean }} options `again`: try once more what has failed before
 */
export async function ensureGpuLibraries({ again }) {
  if (process.platform !== 'linux' || process.arch !== 'x64' || !(await hasNvidiaGpu())) return;
  const folder = join(ROOT, 'packages', 'backends', 'node_modules', 'onnxruntime-node');
  const library = join(folder, 'bin', 'napi-v6', 'linux', 'x64', 'libonnxruntime_providers_cuda.so');
  const attempt = hashOf({ files: [join(folder, 'package.json')] });
  if (existsSync(library) || (isStamped('gpu-failed', attempt) && !again)) return;
  const install = () =>
    runCommand(process.execPath, [join(folder, 'script', 'install.js')], {
      cwd: folder,
      // A value that names CUDA 12 is not understood by the script, and then it does nothing below npm.
      env: toolEnvironment({ ONNXRUNTIME_NODE_INSTALL: 'true' }),
      log: 'gpu',
    });
  const { code, output } = await step('fetching the CUDA libraries of onnxruntime for the GPU', install);
  if (code === 0 && existsSync(library)) return;
  writeStamp('gpu-failed', attempt);
  say(
    `the GPU cannot be used, models run on the CPU: ${errorLine(output)}; ` +
      `once onnxruntime-node can download (${logFile('gpu')} has the details), run: npm run setup`,
  );
}

async function hasNvidiaGpu() {
  if (existsSync('/proc/driver/nvidia/version')) return true;
  const nvidiaSmi = findProgram('nvidia-smi');
  if (nvidiaSmi === undefined) return false;
  const { code, output } = await runCommand(nvidiaSmi, ['-L'], { limitMs: NVIDIA_SMI_LIMIT_MS });
  return code === 0 && /^GPU \d/m.test(output);
}

function fail(what, output, log) {
  throw new SetupError(`${what}: ${errorLine(output)}; see ${logFile(log)}, check network and proxy, then run again`);
}
