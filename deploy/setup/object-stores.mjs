import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, ROOT, VENV } from './checkout.mjs';
import { errorLine, logFile, runCommand } from './command.mjs';
import { step } from './progress.mjs';
import { ensurePython } from './python.mjs';
import { hashOf, isStamped, writeStamp } from './stamp.mjs';
import { npmCommand, npmEnvironment } from './tools.mjs';

const REQUIREMENTS = join(ROOT, 'test', 'cloud', 'requirements.txt');
// Later ones want Node 22.
const AZURITE = '3.35.0';
const AZURITE_FOLDER = join(CACHE, 'azurite');

/** The programs of the servers that speak clouds' protocols, each there once it is installed. */
export const STORE_SERVERS = {
  s3: join(VENV, 'bin', 'moto_server'),
  gcs: join(VENV, 'bin', 'gcp-storage-emulator'),
  azure: join(AZURITE_FOLDER, 'node_modules', 'azurite', 'dist', 'src', 'blob', 'main.js'),
};

/**
 * The servers for the tests of repositories in clouds. Only tests need them.
 *
 * @returns {Promise<{ missing?: string }>} `missing` says why one is not there
 */
export async function ensureObjectStores() {
  const missing = (await Promise.all([ensurePythonServers(), ensureAzurite()])).filter((why) => why !== undefined);
  return missing.length === 0 ? {} : { missing: missing.join('; ') };
}

async function ensurePythonServers() {
  const environment = await ensurePython();
  if (environment.missing !== undefined) return environment.missing;
  const { python } = environment;
  const version = await runCommand(python, ['-V']);
  const key = hashOf({ texts: [python, version.output], files: [REQUIREMENTS] });
  if (isStamped('store-servers', key) && existsSync(STORE_SERVERS.s3)) return undefined;
  const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', REQUIREMENTS];
  const { code, output } = await step('installing the servers of the tests of clouds', () =>
    runCommand(python, args, { log: 'store-servers' }),
  );
  if (code !== 0) return `pip failed: ${errorLine(output)} (${logFile('store-servers')})`;
  writeStamp('store-servers', key);
  return undefined;
}

async function ensureAzurite() {
  const key = hashOf({ texts: [AZURITE] });
  if (isStamped('azurite', key) && existsSync(STORE_SERVERS.azure)) return undefined;
  mkdirSync(AZURITE_FOLDER, { recursive: true });
  const { program, args } = npmCommand();
  const install = ['install', '--prefix', AZURITE_FOLDER, '--no-save', '--no-audit', '--no-fund', '--ignore-scripts'];
  const { code, output } = await step(`installing Azurite ${AZURITE}, for the tests of clouds`, () =>
    runCommand(program, [...args, ...install, `azurite@${AZURITE}`], {
      cwd: AZURITE_FOLDER,
      env: npmEnvironment(),
      log: 'azurite',
    }),
  );
  if (code !== 0 || !existsSync(STORE_SERVERS.azure)) return `npm failed: ${errorLine(output)} (${logFile('azurite')})`;
  writeStamp('azurite', key);
  return undefined;
}
