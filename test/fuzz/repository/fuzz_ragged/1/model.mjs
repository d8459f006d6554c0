export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get('INPUT') } }));
