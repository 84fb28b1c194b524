# Known stacks of Ruby. A call that matters carries "#CALLER|CALLEE": test_agent_ruby.py reads the tree of calls, and the
# lines that frames must show, from these marks. Each way ends in a burn() of some 300 us.

def burn(rounds = 4000)
  sum = 0
  i = 0
  while i < rounds
    sum = (sum * 31 + i) & 0xffffff
    i += 1
  end
  sum
end

module Shop
  class Sale
    def initialize(deep)
      @deep = deep
    end

    def total
      @deep + burn #Shop::Sale#total|Object#burn
    end

    def self.recurse(sale, deep)
      return 1 + recurse(sale, deep - 1) if deep > 0 #Shop::Sale.recurse|Shop::Sale.recurse

      sale.total #Shop::Sale.recurse|Shop::Sale#total
    end
  end

  class Mapper
    include Comparable

    def one(x)
      x + burn #Shop::Mapper#one|Object#burn
    end

    def all
      [1, 2].map { |x| one(x) } #Shop::Mapper#all|Array#map #Array#map|block_in_Shop::Mapper#all #block_in_Shop::Mapper#all|Shop::Mapper#one
    end

    def method_missing(name, *arguments)
      burn #Shop::Mapper#method_missing|Object#burn
    end

    def respond_to_missing?(name, all = false)
      true
    end

    def <=>(other)
      burn(1000) #Shop::Mapper#<=>|Object#burn
    end
  end
end

def by_recursion
  Shop::Sale.recurse(Shop::Sale.new(1), 5) #Object#by_recursion|Shop::Sale.recurse #Object#by_recursion|Class#new #Class#new|Shop::Sale#initialize
end

def by_mapping
  Shop::Mapper.new.all #Object#by_mapping|Shop::Mapper#all #Object#by_mapping|Class#new
end

def by_missing
  Shop::Mapper.new.nobody(1) #Object#by_missing|Shop::Mapper#method_missing #Object#by_missing|Class#new
end

def by_comparing
  Shop::Mapper.new > 3 #Object#by_comparing|Comparable#> #Comparable#>|Shop::Mapper#<=> #Object#by_comparing|Class#new
end

def by_sorting
  [3, 1, 2].sort_by do |x| #Object#by_sorting|Enumerable#sort_by #Enumerable#sort_by|Array#each #Array#each|block_in_Object#by_sorting
    burn(1000) + x #block_in_Object#by_sorting|Object#burn
  end
end

def by_hash
  { a: 1, b: 2 }.each do |_key, value| #Object#by_hash|Hash#each #Hash#each|block_in_Object#by_hash
    burn(1000 + value) #block_in_Object#by_hash|Object#burn
  end
end

Square = proc { |x| x + burn } #block_in_<main>|Object#burn

def by_proc
  Square.call(2) #Object#by_proc|block_in_<main>
end

def yielder
  yield 1 #Object#yielder|block_(2_levels)_in_Object#by_yielding #Object#yielder|block_in_Object#by_yielding
end

def by_yielding
  yielder do |x| #Object#by_yielding|Object#yielder
    yielder { |y| burn(x + y + 2000) } #block_in_Object#by_yielding|Object#yielder #block_(2_levels)_in_Object#by_yielding|Object#burn
  end
end

def throws
  burn #Object#throws|Object#burn
  raise ArgumentError, 'x' #Object#throws|Kernel#raise #Kernel#raise|* #Object#throws|Exception.exception
end

def by_exception
  throws #Object#by_exception|Object#throws
rescue ArgumentError #Object#by_exception|rescue_in_Object#by_exception
  burn #rescue_in_Object#by_exception|Object#burn
ensure
  burn(500) #Object#by_exception|Object#burn #Object#by_exception|ensure_in_Object#by_exception #ensure_in_Object#by_exception|Object#burn
end

def by_enumerator
  numbers = Enumerator.new { |y| y << burn; y << burn } #block_in_Object#by_enumerator|Object#burn #block_in_Object#by_enumerator|Enumerator::Yielder#<< #Object#by_enumerator|Class#new
  numbers.each { |n| n } #Object#by_enumerator|Enumerator#each #Enumerator#each|Enumerator::Generator#each #Enumerator::Generator#each|block_in_Object#by_enumerator #Enumerator::Yielder#<<|block_in_Object#by_enumerator
end

def by_sending
  send(:by_recursion) #Object#by_sending|Object#by_recursion #Object#by_sending|Kernel#send
end

def by_matching
  'abc' =~ /b/ #Object#by_matching|String#=~
  burn #Object#by_matching|Object#burn
end

def by_c
  Array.new(20_000) { 3 } #Object#by_c|Class#new #Object#by_c|Array#initialize #Object#by_c|Array.new #Array.new|Array#initialize #Class#new|Array#initialize #Array#initialize|block_in_Object#by_c
end

def work
  by_recursion #Object#work|Object#by_recursion
  by_mapping #Object#work|Object#by_mapping
  by_missing #Object#work|Object#by_missing
  by_comparing #Object#work|Object#by_comparing
  by_sorting #Object#work|Object#by_sorting
  by_hash #Object#work|Object#by_hash
  by_proc #Object#work|Object#by_proc
  by_yielding #Object#work|Object#by_yielding
  by_exception #Object#work|Object#by_exception
  by_enumerator #Object#work|Object#by_enumerator
  by_sending #Object#work|Object#by_sending
  by_matching #Object#work|Object#by_matching
  by_c #Object#work|Object#by_c
end

until_time = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (ARGV[0] || 30).to_f #<main>|*
if ARGV[1] == 'threads'
  threads = 2.times.map { Thread.new { work while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_time } } #<main>|Object#work
  threads.each(&:join)
elsif ARGV[1] == 'fiber'
  fiber = Fiber.new { loop { work; Fiber.yield } } #<main>|Object#work
  fiber.resume while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_time #<main>|Fiber#resume
else
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_time #<main>|Process.clock_gettime
    work #<main>|Object#work
  end
end
