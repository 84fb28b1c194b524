<?php
// Known stacks of PHP. A call that matters carries "#CALLER>CALLEE": test_agent_php.py reads the tree of calls, and
// the lines that frames must show, from these marks (a call over several lines is at its first or its last). Each way ends in a burn() of some 200 us.

function burn($rounds = 4000)
{
    $sum = 0;
    for ($i = 0; $i < $rounds; $i++) {
        $sum = ($sum * 31 + $i) & 0xffffff;
    }
    return $sum;
}

interface Priced
{
    public function total();
}

final class Sale implements Priced
{
    private $deep;

    public function __construct($deep)
    {
        $this->deep = $deep;
    }

    public function total()
    {
        return $this->deep + burn(); #Sale::total>burn
    }

    public static function recurse(Priced $sale, $deep)
    {
        if ($deep > 0) {
            return 1 + self::recurse($sale, $deep - 1); #Sale::recurse>Sale::recurse
        }
        return $sale->total(); #Sale::recurse>Sale::total
    }
}

function by_recursion()
{
    return Sale::recurse(new Sale(1), 5); #by_recursion>Sale::recurse #by_recursion>Sale::__construct
}

function by_sorting()
{
    $list = [3, 1, 2];
    usort($list, function ($a, $b) { #by_sorting>usort #usort>{closure}by_sorting
        burn(1000); #{closure}by_sorting>burn
        return $a <=> $b;
    }); #by_sorting>usort
}

class Mapper
{
    public function one($x)
    {
        return $x + burn(); #Mapper::one>burn
    }

    public function all()
    {
        return array_map([$this, 'one'], [1, 2]); #Mapper::all>array_map #array_map>Mapper::one
    }

    public function __call($name, $arguments)
    {
        return burn(); #Mapper::__call>burn
    }

    public function __toString()
    {
        return 'x' . burn(); #Mapper::__toString>burn
    }
}

function by_mapping()
{
    return (new Mapper())->all(); #by_mapping>Mapper::all
}

function by_magic()
{
    return (new Mapper())->nobody(1); #by_magic>Mapper::__call #by_magic>nobody
}

function by_text()
{
    $mapper = new Mapper();
    return "a $mapper"; #by_text>Mapper::__toString
}

function by_pattern()
{
    return preg_replace_callback('/b/', function ($found) { #by_pattern>preg_replace_callback #preg_replace_callback>{closure}by_pattern
        return $found[0] . burn(); #{closure}by_pattern>burn
    }, 'abc'); #by_pattern>preg_replace_callback
}

function numbers($count)
{
    for ($i = 0; $i < $count; $i++) {
        yield $i + burn(); #numbers>burn
    }
}

function delegated($count)
{
    yield from numbers($count); #delegated>numbers
}

function by_generator()
{
    $sum = 0;
    foreach (numbers(2) as $n) { #by_generator>numbers
        $sum += $n;
    }
    return $sum;
}

function by_delegation()
{
    $sum = 0;
    foreach (delegated(2) as $n) { #by_delegation>delegated
        $sum += $n;
    }
    return $sum;
}

function throws()
{
    throw new RuntimeException('x' . burn()); #throws>burn #throws>Exception::__construct
}

function by_exception()
{
    try {
        throws(); #by_exception>throws
    } catch (RuntimeException $e) {
        return burn(); #by_exception>burn
    } finally {
        burn(500); #by_exception>burn
    }
}

function by_including()
{
    return include __DIR__ . '/known_included.inc'; #by_including>include
}

class Guard
{
    public function __destruct()
    {
        burn(); #Guard::__destruct>burn
    }
}

function by_destructor()
{
    $guard = new Guard();
    $guard = null; #by_destructor>Guard::__destruct
}

function by_eval()
{
    return eval('return burn();'); #by_eval>eval #eval>burn
}

function by_expression()
{
    static $text = '';
    if ($text === '') {
        $text = str_repeat('hello7 world foo12 bar ', 300); #by_expression>str_repeat
    }
    return preg_replace('/(\w+)\s+(?:foo|bar)+\d*[a-z]*z/', '', $text); #by_expression>preg_replace
}

function by_hash()
{
    return hash('sha256', str_repeat('x', 20000)); #by_hash>hash #by_hash>str_repeat
}

function fiber_task()
{
    burn(); #fiber_task>burn
    Fiber::suspend(); #fiber_task>Fiber::suspend
    return burn(); #fiber_task>burn
}

function by_fiber()
{
    if (PHP_VERSION_ID < 80100) {
        return;
    }
    $fiber = new Fiber('fiber_task'); #by_fiber>Fiber::__construct
    $fiber->start(); #by_fiber>Fiber::start #Fiber::start>fiber_task
    $fiber->resume(); #by_fiber>Fiber::resume #Fiber::resume>fiber_task
}

function work()
{
    by_recursion(); #work>by_recursion
    by_sorting(); #work>by_sorting
    by_mapping(); #work>by_mapping
    by_magic(); #work>by_magic
    by_text(); #work>by_text
    by_pattern(); #work>by_pattern
    by_generator(); #work>by_generator
    by_delegation(); #work>by_delegation
    by_exception(); #work>by_exception
    by_including(); #work>by_including
    by_destructor(); #work>by_destructor
    by_eval(); #work>by_eval
    by_hash(); #work>by_hash
    by_expression(); #work>by_expression
    by_fiber(); #work>by_fiber
}

$until = microtime(true) + (float) ($argv[1] ?? 30); #{main}>microtime
while (microtime(true) < $until) { #{main}>microtime
    work(); #{main}>work
}
