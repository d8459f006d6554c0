import { describe, expect, it } from 'vitest';
import { ERROR_TABLE } from './error.ts';
import { errorReasonsMarkdown, errorTableMarkdown } from './error-table.ts';

it.each(['sequence_lost', 'step_gap', 'answer_expired', 'expired', 'stream_broken'])(
  'the reason %s is told',
  (reason) => {
    expect(errorReasonsMarkdown()).toMatch(new RegExp(`^\\| \`${reason}\` \\| [a-z].+ \\|$`, 'm'));
  },
);

describe('the error table as Markdown', () => {
  const rows = errorTableMarkdown().trimEnd().split('\n');

  it('has a row for each code, each with all its columns', () => {
    expect(rows).toHaveLength(Object.keys(ERROR_TABLE).length + 2);
    for (const row of rows) expect(row.split('|')).toHaveLength(8);
    expect(errorTableMarkdown()).not.toMatch(/\|\s*\(/);
  });

  it("shows Nereid's own status where it differs", () => {
    expect(rows).toContain('| ALREADY_EXISTS | the name or key is taken | 400 | 409 | ALREADY_EXISTS (6) | OTHER |');
  });
});
