import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where things are in this checkout. Everything that set-up makes is under `.cache`, `node_modules` and `dist`. */
export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const CACHE = join(ROOT, '.cache');
export const TOOLS_BIN = join(CACHE, 'tools', 'node_modules', '.bin');
export const ROOT_BIN = join(ROOT, 'node_modules', '.bin');
export const VENV = join(CACHE, 'venv');
export const SAMPLES = join(CACHE, 'samples');
export const CLI = join(ROOT, 'packages', 'cli', 'dist', 'main.js');
export const MODEL_REPOSITORY = join(ROOT, 'model_repository');

/** The environment of every program that set-up starts: our tools first on PATH, and no CUDA download by pnpm. */
export function toolEnvironment(more = {}) {
  const path = [ROOT_BIN, TOOLS_BIN, process.env.PATH ?? ''].join(':');
  return { ...process.env, PATH: path, ONNXRUNTIME_NODE_INSTALL: 'skip', TURBO_TELEMETRY_DISABLED: '1', ...more };
}

/** A variable of the caller's environment. */
export function setting(name) {
  return process.env[name];
}
