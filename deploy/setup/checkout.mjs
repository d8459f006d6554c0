import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where things are in this checkout. Everything that set-up makes is under `.cache`, `node_modules` and `dist`. */
export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const CACHE = join(ROOT, '.cache');
export const TOOLS_BIN = join(CACHE, 'tools', 'node_modules', '.bin');
export const ROOT_BIN = join(ROOT, 'node_modules', '.bin');
export const VENV = join(CACHE, 'venv');
export const SAMPLES = join(CACHE, 'samples');
/** What users start: the bundle, in an environment that says how memory is given back. */
export const COMMAND = join(ROOT, 'packages', 'cli', 'bin', 'nereid');
export const COMMAND_BUNDLE = join(ROOT, 'packages', 'cli', 'bundle', 'nereid.js');
export const MODEL_REPOSITORY = join(ROOT, 'model_repository');

const COMMAND_UNBUNDLED = join(ROOT, 'packages', 'cli', 'dist', 'main.js');

/** The file to run as `nereid`: the bundle, or what the compiler wrote where that is newer (`tsc -b` alone). */
export function commandFile() {
  if (!existsSync(COMMAND_BUNDLE)) return COMMAND_UNBUNDLED;
  const packages = join(ROOT, 'packages');
  const builds = readdirSync(packages).map((name) => join(packages, name, 'dist', '.tsbuildinfo'));
  const compiledAt = Math.max(...builds.filter(existsSync).map((file) => statSync(file).mtimeMs));
  return statSync(COMMAND_BUNDLE).mtimeMs >= compiledAt ? COMMAND_BUNDLE : COMMAND_UNBUNDLED;
}

/** The environment of every program that set-up starts: our tools first on PATH, and no CUDA download by pnpm. */
export function toolEnvironment(more = {}) {
  const path = [ROOT_BIN, TOOLS_BIN, process.env.PATH ?? ''].join(':');
  return { ...process.env, PATH: path, ONNXRUNTIME_NODE_INSTALL: 'skip', TURBO_TELEMETRY_DISABLED: '1', ...more };
}

/** A variable of the caller's environment. */
export function setting(name) {
  return process.env[name];
}
