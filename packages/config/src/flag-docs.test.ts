import { expect, it } from 'vitest';
import { flagsHelp, flagsMarkdown } from './flag-docs.ts';
import { environmentName, FLAGS, isReadBy } from './flag-table.ts';

it('the help shows each effective flag with default and variable, and names the others', () => {
  const help = flagsHelp();
  for (const flag of FLAGS) {
    expect(help, flag.name).toContain(`--${flag.name}`);
    expect(help.includes(environmentName(flag.name)), flag.name).toBe(flag.noEffect === undefined);
  }
  expect(help).toContain(
    [
      '  --http-port=<number>',
      '      The port that the HTTP server listens on; 0 for any free one.',
      '      [default 8000; NEREID_HTTP_PORT]',
    ].join('\n'),
  );
});

it.each(['gateway', 'coordinator', 'worker'] as const)('the help of %s shows its own flags and defaults', (role) => {
  const help = flagsHelp(role);
  for (const flag of FLAGS) {
    expect(new RegExp(`--${flag.name}[= \\n]`).test(`${help}\n`), flag.name).toBe(isReadBy(flag, role));
  }
  const port = { gateway: 8002, coordinator: 8012, worker: 8022 }[role];
  expect(help).toContain(`[default ${port}; NEREID_METRICS_PORT]`);
});

it('no line of the help is wider than 100 characters', () => {
  expect(
    flagsHelp()
      .split('\n')
      .filter((line) => line.length > 100),
  ).toEqual([]);
});

it('every row of a table in the docs has the cells of its header', () => {
  const cells = (line: string) => line.replaceAll('\\|', '').split('|').length;
  let header = 0;
  let rows = 0;
  for (const line of flagsMarkdown().split('\n')) {
    if (!line.startsWith('|')) header = 0;
    else if (header === 0) header = cells(line);
    else {
      rows++;
      expect(cells(line), line).toBe(header);
    }
  }
  expect(rows).toBeGreaterThan(FLAGS.length);
});

it('nothing in the docs looks like an HTML tag outside code', () => {
  const prose = flagsMarkdown()
    .replace(/```.*?```/gs, '')
    .replace(/`[^`\n]*`/g, '');
  expect(prose).not.toMatch(/[<`]/);
});
