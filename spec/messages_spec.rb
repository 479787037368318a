# frozen_string_literal: true

require "support/messages"

# Lists all messages in one file. Before you change a message, remember that applications may match
# on its text.
RSpec.describe Support::Messages do
  it "lists plock's messages in spec/messages.txt, which `rake messages:update` rewrites" do
    expect(File.read(described_class::FILE)).to eq(described_class.all)
  end

  it "finds literals that go on, and what they fill in" do
    text = <<~'RUBY'
      raise Error, "the key #{key.inspect} " \
                   "is held by #{name ? "the other #{name} of them" : "none"}: wait for it"
    RUBY
    expect(described_class.of_ruby(text)).to eq(["the key … is held by …: wait for it"])
    expect(described_class.of_ruby('%w[a b]; { "k#{1}": 1 }; "the key"').last).to eq("the key")
    expect(
      described_class.of_c(%(fail(e, "no %d of "\n  "%.80s is \\"there\\""); /* "not this" */))
    ).to eq(['no … of … is "there"'])
  end
end
