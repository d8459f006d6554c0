import { parseArgs } from 'node:util';

/**
 * A command's options by node:util's parseArgs; those it does not know end it with one line and exit status 2.
 * `--help` prints `usage` and ends it with 0.
 */
export function commandOptions({ usage, ...config }) {
  let parsed;
  try {
    parsed = parseArgs({ ...config, options: { ...config.options, help: { type: 'boolean', default: false } } });
  } catch (error) {
    endWithUsage(error.message, usage);
  }
  if (parsed.values.help) {
    console.log(usage);
    process.exit(0);
  }
  return parsed;
}

/** Ends the command for what is wrong on its command line. */
export function endWithUsage(text, usage) {
  console.error(`${text}\n${usage}`);
  process.exit(2);
}
