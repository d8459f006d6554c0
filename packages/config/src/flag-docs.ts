/** What people read about the flags: the help text and docs/flags.md. */
import type { FlagRole, FlagTopic } from './flag-meta.ts';
import { environmentName, FLAGS, type Flag, isReadBy, roleFallback } from './flag-table.ts';

const TOPICS: readonly FlagTopic[] = [
  'Server',
  'Models',
  'Redis',
  'HTTP',
  'gRPC',
  'Metrics',
  'Logging',
  'Tracing',
  'Hardware',
  'Cloud',
];

const HELP_INDENT = '      ';
const HELP_WIDTH_MAX = 100;

function byTopic(flags: readonly Flag[]): readonly (readonly [FlagTopic, readonly Flag[]])[] {
  return TOPICS.map((topic) => [topic, flags.filter((flag) => flag.topic === topic)] as const).filter(
    ([, list]) => list.length > 0,
  );
}

/** Text in lines of bounded width. */
function wrap(text: string, indent: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && indent.length + line.length + 1 + word.length > HELP_WIDTH_MAX) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.map((line) => indent + line).join('\n');
}

function aliasText(flag: Flag): string {
  return (flag.aliases ?? [])
    .map((alias) => ` Also --${alias.name}${alias.deprecated ? ' (deprecated)' : ''}.`)
    .join('');
}

function deprecatedText(flag: Flag): string {
  return flag.deprecated === undefined ? '' : ` Deprecated: use \`${flag.deprecated}\`.`;
}

function helpEntry(flag: Flag, role: FlagRole | undefined): string {
  const value = roleFallback(flag, role) ?? flag.fallback;
  const fallback = flag.required ? 'required' : value === '' ? '' : `default ${value}`;
  const facts = [fallback, flag.repeatable ? 'repeatable' : '', environmentName(flag.name)].filter(
    (fact) => fact !== '',
  );
  return [
    `  --${flag.name}=${flag.valueForm}`,
    wrap(flag.description + aliasText(flag) + deprecatedText(flag), HELP_INDENT),
    wrap(`[${facts.join('; ')}]`, HELP_INDENT),
  ].join('\n');
}

/** The flags of a role (all without one) that have an effect, by topic, and the names of the others. */
export function flagsHelp(role?: FlagRole): string {
  const read = FLAGS.filter((flag) => isReadBy(flag, role));
  const topics = byTopic(read.filter((flag) => flag.noEffect === undefined)).map(([topic, flags]) =>
    [`${topic}:`, ...flags.map((flag) => helpEntry(flag, role))].join('\n'),
  );
  const without = read.filter((flag) => flag.noEffect !== undefined).map((flag) => `--${flag.name}`);
  const rest = [
    'Accepted without effect in this version (each one that is set is warned about):',
    wrap(without.join(' '), '  '),
  ];
  return [...topics, rest.join('\n')].join('\n\n');
}

/** A cell of a Markdown table. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}

function code(text: string): string {
  return text === '' ? '' : `\`${cell(text)}\``;
}

function effectiveRow(flag: Flag): string {
  const name = code(`--${flag.name}=${flag.valueForm}`);
  const notes = [flag.repeatable ? 'Repeatable.' : '', flag.ours === true ? "Ours, not Triton's." : ''].filter(
    (note) => note !== '',
  );
  const text = [flag.description + aliasText(flag) + deprecatedText(flag), ...notes].join(' ');
  const others = Object.entries(flag.roleFallbacks ?? {}).map(([role, value]) => `, ${role} ${code(String(value))}`);
  const fallback = flag.required ? 'required' : code(flag.fallback) + others.join('');
  const roles = flag.roles.length === 0 ? '`serve` only' : flag.roles.join(', ');
  return `| ${name} | ${fallback} | ${code(environmentName(flag.name))} | ${roles} | ${cell(text)} |`;
}

function inertRow(flag: Flag): string {
  const name = code(`--${flag.name}=${flag.valueForm}`);
  return `| ${name} | ${code(flag.fallback)} | ${cell(flag.description)} | ${cell(flag.noEffect ?? '')} |`;
}

const HOW = `# Flags

Options of \`nereid serve\`, \`gateway\`, \`coordinator\` and \`worker\`. This page is generated from \`packages/config/src/options.ts\`, the \`options-….ts\` beside it, and \`flag-inert.ts\`.

- \`--flag=value\` and \`--flag value\`. Booleans are \`true\`, \`false\`, \`1\` or \`0\`; a boolean flag alone means true.
- A repeatable flag is given once per value. Of any other flag the last one holds.
- Each flag can also be set by its environment variable (repeatable ones: values separated by \`;\`; an empty variable counts as not set) and by its name in the YAML file that \`--config\` names (repeatable ones: a list).
- A flag comes before the environment, the environment before the file, the file before the default. A repeatable flag takes its values from the first of these that has any.
- An unknown flag or a bad value ends the start with exit code 2 and one line that says what is allowed.
- Names, meanings and defaults are Triton's where it has the flag.
- \`roles\` says which part of the server reads the flag. \`nereid serve\` has all parts in one process and takes every flag. \`nereid gateway\`, \`coordinator\` and \`worker\` refuse a flag of another role on the command line; in the environment and the file, which several processes may share, they leave it unread. They need \`--redis-url\`.

\`\`\`yaml
# nereid.yaml, for: nereid serve --config nereid.yaml
model-repository:
  - ./model_repository
http-port: 8000
strict-readiness: true
\`\`\``;

/** docs/flags.md. */
export function flagsMarkdown(): string {
  const effective = byTopic(FLAGS.filter((flag) => flag.noEffect === undefined)).flatMap(([topic, flags]) => [
    `## ${topic}`,
    '',
    '| flag | default | environment | roles | meaning |',
    '| --- | --- | --- | --- | --- |',
    ...flags.map(effectiveRow),
    '',
  ]);
  const without = byTopic(FLAGS.filter((flag) => flag.noEffect !== undefined)).flatMap(([topic, flags]) => [
    `### ${topic}`,
    '',
    '| flag | default | meaning | why it has no effect |',
    '| --- | --- | --- | --- |',
    ...flags.map(inertRow),
    '',
  ]);
  const heading = ['## Accepted without effect', '', 'Setting one of these is warned about once, by name.', ''];
  return [HOW, '', ...effective, ...heading, ...without].join('\n');
}
