/** Different English sentences of 5 to 60 words, the same ones each time. */
export function sentences(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => sentence(index));
}

const WHO = [
  'The baker',
  'A tired nurse',
  'My neighbour',
  'The old captain',
  'Nobody',
  'Their youngest child',
  'A robot',
];
const DOES = [
  'repairs',
  'forgets',
  'paints',
  'sells',
  'carries',
  'examines',
  'hides',
  'borrows',
  'praises',
  'weighs',
  'drops',
];
const WHAT = ['a bicycle', 'the census report', 'fresh bread', 'an umbrella', 'two violins', 'the oscilloscope'];
const WHERE = ['at the harbour', 'in Zürich', 'behind the library', 'on the 5th floor', 'before dawn'];
/** Most are short, as texts are that people search for. */
const clausesOf = (index: number) => (index % 41 === 12 ? 6 : index % 11 === 3 ? 3 : index % 4 === 2 ? 2 : 1);

function sentence(index: number): string {
  return `${Array.from({ length: clausesOf(index) }, (_, clause) => clauseOf(index + clause * 137)).join(', and ')} (${index}).`;
}

function clauseOf(seed: number): string {
  // Lists of lengths without a common divisor: their combinations repeat late.
  return [WHO, DOES, WHAT, WHERE].map((words) => words[seed % words.length]).join(' ');
}
