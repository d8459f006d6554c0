/** Answers odd requests with an error of its own; throws nothing. */
export function execute(requests) {
  return requests.map(({ inputs }) => {
    const value = inputs.get('INPUT');
    if (value.data[0] % 2 === 0) return { outputs: { OUTPUT: value } };
    return Object.assign(new Error('odd input'), { code: 'INVALID_ARG' });
  });
}
