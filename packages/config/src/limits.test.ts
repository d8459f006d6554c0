import { expect, it } from 'vitest';
import { LIMITS, limitsMarkdown } from './limits.ts';

it('every limit is a positive safe integer, is named max or min or ends in its unit, and has a sentence', () => {
  const page = limitsMarkdown();
  for (const [name, value] of Object.entries(LIMITS)) {
    expect(Number.isSafeInteger(value) && value > 0, name).toBe(true);
    expect(name).toMatch(/_(?:max|min|ms)$|_(?:min|max)_ms$/);
    expect(page).toMatch(new RegExp(`\\| \`${name}\` \\| [\\d,]+ \\| [A-Z].+\\. \\|`));
  }
});
