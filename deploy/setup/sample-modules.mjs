import { copyFileSync, cpSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './checkout.mjs';

// Sample models that are JavaScript, or only a configuration: their sources are in deploy/models. A model folder has
// copies of all that it needs, packages too, so that it can be copied anywhere.

const SOURCES = join(ROOT, 'deploy', 'models');

/** The files that `writeModel` reads: what a stamp covers, with the versions of the packages. */
export function modelSources({ config, modules = [] }) {
  return [join(SOURCES, 'package.json'), ...[config, ...modules].map((file) => join(SOURCES, file))];
}

/**
 * Writes a model folder. Its licence is ours; packages bring their own.
 *
 * @param {string} model the folder
 * @param {{ config: string, modules?: readonly string[], packages?: readonly string[] }} parts files in deploy/models;
 *   the first of `modules` becomes model.mjs, the others keep their names
 */
export function writeModel(model, { config, modules = [], packages = [] }) {
  mkdirSync(join(model, '1'), { recursive: true });
  copyFileSync(join(SOURCES, config), join(model, 'config.pbtxt'));
  copyFileSync(join(ROOT, 'LICENSE'), join(model, 'LICENSE'));
  for (const [index, file] of modules.entries()) {
    const name = index === 0 ? 'model.mjs' : file.slice(file.lastIndexOf('/') + 1);
    copyFileSync(join(SOURCES, file), join(model, '1', name));
  }
  for (const name of packages) {
    const installed = realpathSync(join(SOURCES, 'node_modules', name));
    cpSync(installed, join(model, 'node_modules', name), { recursive: true, filter: isNeeded });
  }
}

/** What runs, and the licence. */
function isNeeded(path) {
  return !/\.(map|d\.ts|md|github)$/.test(path);
}

/** Says where a model's weights are from. */
export function writeNotice(model, text) {
  writeFileSync(join(model, 'NOTICE'), text);
}
