# frozen_string_literal: true

require "spec_helper"
require_relative "parse_stack_context"

# Processes with the gem's own locks and processes with plock's locks contend for one key on one
# Redis.
RSpec.describe "plock/parse_stack beside processes of the gem's own locks" do
  include_context "with parse-stack-next"

  let(:key) { "key #{SecureRandom.hex(8)}" }

  # A program that acquires the lock, reports that, and keeps the lock until it receives a line.
  def holder(taking, ours:)
    running("#{taking} { puts 'in'; $stdin.gets }\nputs 'out'\n", ours: ours).tap do |pipe|
      expect(pipe.gets).to eq("in\n")
    end
  end

  # A program that prints "mine", or the class of the error.
  def asker(taking, ours:)
    told("puts((#{taking} { 'mine' } rescue $!.class))", ours: ours)
  end

  {
    "the lock" => ["Parse::Lock.acquire(%s, ttl: 30, wait: %s)", "Parse::Lock::TimeoutError\n"],
    "the find-or-create lock" =>
      ["Parse::CreateLock.synchronize(parse_class: 'Song', query_attrs: { title: %s }, " \
       "options: { ttl: 30, wait: %s })", "Parse::CreateLockTimeoutError\n"]
  }.each do |name, (taking, refused)|
    [true, false].each do |ours|
      it "while #{ours ? "we hold" : "they hold"} #{name}, " \
         "#{ours ? "they do" : "we do"} not, and then #{ours ? "they do" : "we do"}" do
        holder = holder(format(taking, key.inspect, 5), ours: ours)
        expect(asker(format(taking, key.inspect, 0), ours: !ours)).to eq(refused)
        waiter = running("#{format(taking, key.inspect, 30)} { puts 'mine' }", ours: !ours)
        expect(waiter.wait_readable(0.3)).to be_nil
        holder.puts("leave")
        expect([holder.gets, waiter.gets]).to eq(%W[out\n mine\n])
      end
    end
  end

  it "one at a time, two processes of each kind, with both kinds of lock in turn" do
    visits = <<~RUBY
      require "redis"
      redis = Redis.new(path: #{shared_redis.unix_path.inspect})
      visit = lambda do
        overlaps = redis.incr(#{"inside #{key}".inspect}) > 1
        redis.decr(#{"inside #{key}".inspect})
        puts "overlap" if overlaps
      end
      puts "ready"
      $stdin.gets
      30.times do
        Parse::Lock.acquire(#{key.inspect}, ttl: 10, wait: 30) { visit.call }
      end
      puts "done"
    RUBY
    processes = [true, false, true, false].map { |ours| running(visits, ours: ours) }
    expect(processes.map(&:gets)).to eq(["ready\n"] * 4)
    processes.each { |process| process.puts("go") }
    expect(processes.map(&:gets)).to eq(["done\n"] * 4)
  end
end
