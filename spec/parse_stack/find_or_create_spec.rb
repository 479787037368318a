# frozen_string_literal: true

require "spec_helper"
require_relative "parse_stack_context"

# Tests the gem's own first_or_create! with plock's locks, against a server that answers like a
# Parse Server.
RSpec.describe "Finding or creating over plock/parse_stack" do
  include_context "with parse-stack-next"

  processes = 8
  titles = %w[one two three four five]

  def song(synchronize) = <<~RUBY
    class Song < Parse::Object
      property :title
      property :album
    end
    find = ->(title) {
      Song.first_or_create!({ title: title }, { album: "a" }, synchronize: #{synchronize})
    }
  RUBY

  # Returns, for each title, the object that each process found or created. All processes start at
  # the same time.
  def found(titles, processes, synchronize:, ours: ->(_) { true })
    pipes = Array.new(processes) do |number|
      running(<<~RUBY, ours: ours.call(number))
        #{song(synchronize)}
        puts "ready"
        while (title = $stdin.gets)
          puts "found \#{find.call(title.chomp).id}"
        end
      RUBY
    end
    pipes.each { |pipe| expect(pipe.gets).to eq("ready\n") }
    titles.map do |title|
      pipes.each { |pipe| pipe.puts(title) }
      pipes.map { |pipe| answer(pipe) }
    end
  end

  # Reads an answer, and skips warnings. On a busy machine, an attempt may take too long. Then it is
  # repeated, and a warning is printed.
  def answer(pipe)
    line = pipe.gets
    line = pipe.gets while line&.start_with?(
      "[Parse::LockBackend] acquire error (Plock::UnavailableError)"
    )
    expect(line).to start_with("found ")
    line
  end

  it "creates one object for all who ask at once" do
    answers = found(titles, processes, synchronize: "{ wait: 20 }")
    expect(parse_server.objects.map { |object| object["title"] }).to eq(titles)
    expect(answers.map { |ids| ids.uniq.size }).to eq([1] * titles.size)
  end

  it "creates one object, too, where half of them run the gem's own locks" do
    answers =
      found(titles, processes, synchronize: "{ wait: 20 }", ours: ->(number) { number.even? })
    expect(parse_server.objects.map { |object| object["title"] }).to eq(titles)
    expect(answers.map { |ids| ids.uniq.size }).to eq([1] * titles.size)
  end

  it "leaves no lock behind" do
    expect(told(<<~RUBY)).to eq("1\n0\n")
      #{song("{ wait: 20, ttl: 200 }")}
      puts Array.new(3) { find.call("again").id }.uniq.size
      redis = Parse.cache.instance_variable_get(:@pool).pool.with { |store| store.adapter.backend }
      puts redis.keys("parse-stack:foc:v1:*").size
    RUBY
  end

  it "creates several without a lock, so that the above means something" do
    parse_server.gather(processes)
    answers = found(titles, processes, synchronize: "false")
    expect(answers.map { |ids| ids.uniq.size }).to eq([processes] * titles.size)
  end
end
