/** The bench's models for Triton's Python backend: the same configuration, the same ONNX files, one thread each. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { GUIDE_PREFIX } from '../models/guide.mjs';

const script = (name) => fileURLToPath(new URL(`./python_models/${name}`, import.meta.url));

/** What does not run an ONNX file: `add_sub` in numpy and the identity without a run are the fastest forms here. */
const SCRIPTS = { add_sub: 'add_sub.py', identity_600k: 'identity.py', sleep10: 'sleep.py' };

const scriptOf = (name) => (name.startsWith(GUIDE_PREFIX) ? SCRIPTS.sleep10 : SCRIPTS[name]);

/**
 * @param {string} models the repository that Nereid serves
 * @param {string} repository where Triton's goes
 */
export function writeTritonModels(models, repository) {
  for (const name of readdirSync(models)) {
    const version = join(repository, name, '1');
    mkdirSync(version, { recursive: true });
    const config = readFileSync(join(models, name, 'config.pbtxt'), 'utf8');
    writeFileSync(join(repository, name, 'config.pbtxt'), forPython(name, config));
    copyFileSync(script(scriptOf(name) ?? 'onnx.py'), join(version, 'model.py'));
    if (scriptOf(name) === undefined) copyFileSync(join(models, name, '1', 'model.onnx'), join(version, 'model.onnx'));
  }
}

function forPython(name, config) {
  const python = config.replace(/^(backend|platform): *"[^"]*"/m, 'backend: "python"');
  if (!python.includes('backend: "python"')) throw new Error(`${name}: its configuration names no backend`);
  return python;
}
