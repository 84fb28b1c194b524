'use strict';
// Known stacks of Node.js. A call that matters carries "//CALLER|CALLEE": test_agent_node.py reads the tree of calls, and
// the lines that frames must show, from these marks. Each way ends in a burn() of some 100 us.
const { Worker, isMainThread } = require('worker_threads');

function burn(rounds) {
	let sum = 0;
	for (let i = 0; i < 20000; i++) {
		sum = (sum * 31 + i + rounds) | 0;
	}
	return sum;
}

class Sale {
	total(n) {
		return burn(n) ^ 3; //total|burn
	}

	get cost() {
		return burn(1); //get_cost|burn
	}

	static of(n) {
		return new Sale().total(n); //of|total //of|Sale
	}
}

function small(n) {
	return Sale.of(n) + 1; //small|of
}

function recurse(deep, n) {
	if (deep > 0)
		return recurse(deep - 1, n) + 1; //recurse|recurse
	return small(n); //recurse|small
}

const closure = (n) => recurse(8, n); //closure|recurse

function bySorting(n) {
	const list = [3, 1, 2];
	list.sort(function compare(a, b) {
		return (closure(n) & 0) + a - b; //compare|closure
	}); //bySorting|compare
	return list[0];
}

function byMapping(n) {
	return [1, 2].map((x) => { //byMapping|(anonymous)
		return bySorting(n + x); //(anonymous)|bySorting
	}).length;
}

function byJson(n) {
	return JSON.stringify({ //byJson|toJSON
		toJSON() {
			return byMapping(n); //toJSON|byMapping
		},
	}).length;
}

function byRegexp(n) {
	return 'one two'.replace(/\w+/g, function replaced(word) { //byRegexp|replaced
		return word + burn(n); //replaced|burn
	}).length;
}

function byThrowing(n) {
	try {
		return fails(n); //byThrowing|fails
	} catch (e) {
		return burn(n); //byThrowing|burn
	}
}

function fails(n) {
	burn(n); //fails|burn
	throw new Error('known');
}

function byGetter() {
	return new Sale().cost; //byGetter|get_cost //byGetter|Sale
}

function* generated(n) {
	yield byJson(n); //generated|byJson
	yield byRegexp(n); //generated|byRegexp
}

function byGenerator(n) {
	let sum = 0;
	for (const v of generated(n)) //byGenerator|generated
		sum += v;
	return sum;
}

function all(n) {
	byGenerator(n); //all|byGenerator
	byThrowing(n); //all|byThrowing
	byGetter(); //all|byGetter
}

async function asynchronous(n) {
	await null;
	all(n); //asynchronous|all
}

function turn() {
	if (Date.now() > end)
		return;
	all(n); //turn|all
	asynchronous(n++).then(() => setImmediate(turn)); //turn|asynchronous
}

const end = Date.now() + 1000 * (Number(process.argv[2]) || 10);
let n = 0;
if (process.argv[3] === 'worker' && isMainThread)
	new Worker(__filename, { argv: process.argv.slice(2) });
else
	turn(); //main|turn
